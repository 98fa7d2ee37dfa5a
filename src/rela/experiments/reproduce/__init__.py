"""The paper as one experiment: every system trained, translated, analysed and timed, and each claim answered."""
