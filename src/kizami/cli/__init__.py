"""The command line: main finds the verb in verbs/, which asks a home (homes) and speaks through terminal/."""
