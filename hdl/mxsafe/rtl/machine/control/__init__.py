"""Control: registers, descriptors, queues and the tokens between them."""
