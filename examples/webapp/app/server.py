"""A web application: answers each request with a greeting and its version."""
import http.server
import pathlib
import sys

settings = dict(line.split(" = ", 1) for line in pathlib.Path(sys.argv[1]).read_text().splitlines())
version = pathlib.Path(__file__).with_name("VERSION").read_text().strip()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        answer = f"{settings['greeting']}, version {version}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


http.server.ThreadingHTTPServer(("127.0.0.1", int(settings["port"])), Handler).serve_forever()
