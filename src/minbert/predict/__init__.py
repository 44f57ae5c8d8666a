"""What trained variants are used for: predictions of new sentences, and files to hand in."""
