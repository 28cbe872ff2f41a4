package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
)

// secure puts what the flags say of TLS into opts.
func (f *Flags) secure(opts *redis.ClusterOptions) error {
	if f.CA == "" && f.Cert == "" && f.Key == "" && f.ServerName == "" {
		return nil
	}
	conf := &tls.Config{ServerName: f.ServerName, MinVersion: tls.VersionTLS12}
	opts.TLSConfig = conf
	return errors.Join(f.trust(conf), f.show(conf))
}

// trust makes conf accept the authorities of the file, and no others.
func (f *Flags) trust(conf *tls.Config) error {
	if f.CA == "" {
		return nil
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return fmt.Errorf("--redis-ca: %w", err)
	}
	conf.RootCAs = x509.NewCertPool()
	if !conf.RootCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("--redis-ca: no PEM certificate in %s", f.CA)
	}
	return nil
}

// show makes conf show the certificate of the files.
func (f *Flags) show(conf *tls.Config) error {
	if f.Cert == "" && f.Key == "" {
		return nil
	}
	if f.Cert == "" || f.Key == "" {
		return errors.New("--redis-cert and --redis-key: want both or none")
	}
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return fmt.Errorf("--redis-cert and --redis-key: %w", err)
	}
	conf.Certificates = []tls.Certificate{cert}
	return nil
}
