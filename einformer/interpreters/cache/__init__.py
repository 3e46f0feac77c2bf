"""What must decoding keep from one step to the next, read off the equations?"""
