"""`/trials/<id>/`: a trial's steps and verdict, finished or running, and two trials side by side."""
