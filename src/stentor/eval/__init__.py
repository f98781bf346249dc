"""How right a transcript is: words, times, seams, silence and language, over a corpus with references."""
