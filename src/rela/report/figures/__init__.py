"""The paper's figures, from result files: each as SVG and PNG, the same bytes for the same numbers."""

from rela.report.figures.write import FigureReport, write_figures

__all__ = ["FigureReport", "write_figures"]
