"""Engines: five verbs over different runtimes."""
