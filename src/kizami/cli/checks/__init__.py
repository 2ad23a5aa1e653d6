"""What `kizami doctor` looks at: this machine, and every target."""
