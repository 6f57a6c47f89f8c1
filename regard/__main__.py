"""`python -m regard`, and what torchrun starts."""

from regard.cli.main import main

if __name__ == "__main__":
    main()
