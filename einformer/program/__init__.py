"""What is computed: analyses of a checked specification that every interpreter shares."""
