"""What the command line and the Ray Serve application share: the engine to load, and the listening server."""
