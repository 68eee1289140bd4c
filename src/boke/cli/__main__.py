"""python -m boke.cli"""

from boke.cli import main

if __name__ == "__main__":
    main()
