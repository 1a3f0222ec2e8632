// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/singularity-slurm/singularity-slurm/preemptd/web"
)

// TestCertificate: a renewed certificate is taken, and a certificate that cannot be read is not.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := writeCertificate(t, cert, key, "first")
	c, err := web.LoadCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.page.Serve(t.Context(), l, c)
	shown := func() string {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if name := shown(); name != "first" {
		t.Errorf("certificate is %q, want first", name)
	}
	writeCertificate(t, cert, key, "second")
	if err := os.Chtimes(cert, time.Time{}, first.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if name := shown(); name != "second" {
		t.Errorf("after a new certificate, it is %q, want second", name)
	}
	if err := os.WriteFile(cert, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(cert, time.Time{}, first.Add(2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if name := shown(); name != "second" {
		t.Errorf("after a broken certificate file, it is %q, want second", name)
	}
	if _, err := web.LoadCertificate(cert, key); err == nil {
		t.Error("LoadCertificate of a broken file returned no error")
	}
}

// writeCertificate writes a certificate of a name, and returns when its file was written.
func writeCertificate(t *testing.T, cert, key, name string) time.Time {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	template.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600),
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(cert)
	if err != nil {
		t.Fatal(err)
	}
	return st.ModTime()
}
