"""boke inside the tools that people use: optuna, sklearn, ray. Each module imports its host and is imported alone."""
