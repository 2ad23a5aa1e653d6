"""What both homes need of the machine they run on: its clock, its configuration file, a socket to serve on."""
