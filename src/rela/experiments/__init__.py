"""Whole studies made of the rooms above."""
