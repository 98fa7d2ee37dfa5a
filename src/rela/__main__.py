"""`python -m rela` is `rela`."""

from rela.cli import main

if __name__ == "__main__":
    main()
