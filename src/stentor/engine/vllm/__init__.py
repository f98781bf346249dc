"""vLLM as an engine: Whisper, and the other models of vLLM's that transcribe.

Its scheduler, batches and kernels run in its own process, the engine core, which `runtime.py` starts and
talks to. What surrounds the network is ours: `whisper.py` hears chunks by the rules that every Whisper engine
shares, with the timestamp grammar (`grammar.py`) inside the core; `speech.py` asks a model of another family
as vLLM's own server would. `engine.py` puts the fair queue before both.
"""
