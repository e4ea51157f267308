"""What sampling gives, and how it leaves the program: datasets, files, other packages."""
