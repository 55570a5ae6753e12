"""What every other package stands on: errors, checked arguments, devices, participants."""
