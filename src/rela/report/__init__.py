"""What was measured, to look at: figures, tables and a page. Reads result files only, and needs no torch."""
