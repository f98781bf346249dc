"""`stentor bench report`: result files as one page.

reading.py      lines out of files; what is broken is named and left out
comparisons.py  levels of the same files on the same machine, beside each other
plots.py        figures as SVG
page.py         the page
"""
