#!/bin/sh
# Prints every answer ahead, and ends without reading a request.

printf 'early 1.0.0 v1 line_based\n\n'
printf 'operation=validate_promise\nresult=valid\n\n'
printf 'operation=evaluate_promise\nresult=kept\n\n'
printf 'operation=terminate\nresult=success\n\n'
