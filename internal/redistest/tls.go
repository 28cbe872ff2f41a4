package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// serverName is whom the nodes' certificate is for. The nodes' addresses are
// not known when it's made, so clients ask for this name instead.
const serverName = "redis.test"

// TLS returns opts for a server that speaks nothing but TLS, with a new
// certificate of a new authority, in files that go with the test. Clients need
// no certificate of their own.
func TLS(t testing.TB, opts Options) Options {
	t.Helper()
	a := newAuthority(t)
	cert, key := a.issue(t)
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	caFile := file("ca.crt", "CERTIFICATE", a.cert.Raw)
	certFile := file("redis.crt", "CERTIFICATE", cert)
	keyFile := file("redis.key", "PRIVATE KEY", key)
	opts.Files = append(slices.Clip(opts.Files), caFile, certFile, keyFile)
	opts.Args = append(slices.Clip(opts.Args),
		"--tls-ca-cert-file", caFile,
		"--tls-cert-file", certFile,
		"--tls-key-file", keyFile,
		"--tls-auth-clients", "optional",
	)
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	opts.TLS = &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS12}
	return opts
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	key := newKey(t)
	template := template("redistest authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// issue returns a certificate and its key, DER encoded. Nodes are also clients
// of each other, so it serves for both.
func (a authority) issue(t testing.TB) (cert, key []byte) {
	t.Helper()
	private := newKey(t)
	template := template(serverName)
	template.DNSNames = []string{serverName}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	cert, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	key, err = x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
