"""The paper's tables and ours, from result files: Markdown, and LaTeX with booktabs."""

from rela.report.tables.table import Table
from rela.report.tables.write import TABLES, TableReport, latex_table, make_table, markdown_table, write_tables

__all__ = ["TABLES", "Table", "TableReport", "latex_table", "make_table", "markdown_table", "write_tables"]
