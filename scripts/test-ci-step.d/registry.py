"""A model of GitLab's registry for generic packages.

Source: docs.gitlab.com, "GitLab generic packages repository" and "Packages API". Without a valid token, a private project is not found.
"""
import http.server
import json
import re
import threading
import urllib.parse


class PackageRegistry:
    """Serves the packages in a folder while the context is open. The context is the address of the API."""

    def __init__(self, folder, project, tokens):
        self.folder, self.project, self.tokens, self.created = folder, project, tokens, []

    def __enter__(self):
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                registry.answer(self)

            def do_PUT(self):
                registry.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}/api/v4"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        status, data = self.result(request.command, urllib.parse.urlsplit(request.path), request.headers, body)
        request.send_response(status)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def result(self, method, address, headers, body):
        top = f"/api/v4/projects/{self.project}/packages"
        if not address.path.startswith(top) or not any(headers.get(name) == token for name, token in self.tokens.items()):
            return 404, b'{"message":"404 Project Not Found"}'
        if method == "GET" and address.path == top:
            return 200, json.dumps(self.list(dict(urllib.parse.parse_qsl(address.query)))).encode()
        found = re.fullmatch(r"/generic/([\w.+-]+)/(\.?[\w+-]+(?:\.[\w+-]+)*)/([\w.+-]+)", address.path[len(top):])
        if not found:
            return 400, b'{"message":"400 Bad request"}'
        name, version, file = found.groups()
        path = self.folder / name / version / file
        if method == "GET":
            return (200, path.read_bytes()) if path.exists() else (404, b'{"message":"404 Not Found"}')
        if (name, version) not in self.created:
            self.created.append((name, version))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        return 201, b'{"message":"201 Created"}'

    def list(self, query):
        """The filter of the name is a part of the name. The oldest package is first, unless the query sorts in the other direction."""
        if query.get("package_type", "generic") != "generic":
            return []
        found = [{"name": name, "version": version, "package_type": "generic"} for name, version in self.created
                 if query.get("package_name", "") in name]
        return found[::-1] if query.get("sort") == "desc" else found
