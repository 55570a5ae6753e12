"""What all other packages use: errors, checks of arguments, devices, participants."""
