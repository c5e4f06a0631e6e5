"""`/trials/<id>/`: a trial's steps and verdict, finished or at work, and two trials beside each other."""
