"""Speed and memory, side by side with what users would pick instead."""
