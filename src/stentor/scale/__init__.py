"""Engines in other processes and on other machines: the Ray Serve application. An extra, `stentor[ray]`."""
