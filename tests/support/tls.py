"""Certificates made with the openssl command."""

import os
import ssl
import subprocess


def _openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Authority:
    def __init__(self, folder, name="ca"):
        self.folder = str(folder)
        self.key = os.path.join(self.folder, f"{name}.key")
        self.cert = os.path.join(self.folder, f"{name}.crt")
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                 self.key, "-out", self.cert, "-days", "2", "-subj", f"/CN={name}",
                 "-addext", "basicConstraints=critical,CA:TRUE")

    def issue(self, name, san=None, subject=None):
        """(certificate file, key file) for e.g. "DNS:localhost" or "IP:127.0.0.1"."""
        key, csr, cert, ext = (os.path.join(self.folder, f"{name}.{e}") for e in ("key", "csr", "crt", "ext"))
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out",
                 csr, "-subj", subject or f"/CN={name}")
        with open(ext, "w", encoding="ascii") as file:
            file.write(f"subjectAltName={san}\n" if san else "extendedKeyUsage=clientAuth\n")
        _openssl("x509", "-req", "-in", csr, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-out", cert,
                 "-days", "2", "-extfile", ext)
        return cert, key

    def client(self, alpn=None, maximum=None):
        context = ssl.create_default_context(cafile=self.cert)
        if alpn:
            context.set_alpn_protocols(alpn)
        if maximum:
            context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            context.maximum_version = maximum
        return context

    def server(self, name, san, on_name=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(name, san))
        if on_name:
            context.sni_callback = lambda _socket, server, _context: on_name(server)
        return context
