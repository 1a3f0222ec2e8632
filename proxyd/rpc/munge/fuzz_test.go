// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package munge_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/proto"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge"
	"github.com/singularity-slurm/singularity-slurm/proxyd/rpc/munge/mungetest"
)

// FuzzGate sends every byte that another user can choose: the payload of his credential, and the
// request. The service may be reached only by a ticket that is right in all.
func FuzzGate(f *testing.F) {
	realm := mungetest.NewRealm()
	s := &service{}
	cc := rawDial(f, startServer(f, &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0)}, s))
	good := makeTicket(check, "n1", requestFor("a"), nil)
	f.Add(good, requestFor("a"))
	f.Add(good, []byte{})
	f.Add([]byte(`{"version":1}`), []byte{0x0a, 0xff, 0xff})
	f.Add(makeTicket(check, "n2", nil, nil), []byte{})
	f.Fuzz(func(t *testing.T, payload, request []byte) {
		if len(payload) > 2048 || len(request) > 1<<20 {
			t.Skip()
		}
		c, err := realm.As(1001, 1001).Encode(t.Context(), payload)
		if err != nil {
			t.Fatal(err)
		}
		before := s.countCalls()
		err = rawCall(t.Context(), cc, check, request, c)
		if s.countCalls() == before {
			if err == nil {
				t.Error("success, but the service was not asked")
			}
			return
		}
		var is struct {
			Version    int
			Method, To string
			Size       int
			Digest     []byte
		}
		digest := sha256.Sum256(request)
		if json.Unmarshal(payload, &is) != nil || is.Version != 1 || is.Method != check || is.To != "n1" ||
			is.Size != len(request) || !bytes.Equal(is.Digest, digest[:]) ||
			proto.Unmarshal(request, &grpc_health_v1.HealthCheckRequest{}) != nil {
			t.Errorf("the service was reached by %q with request %q", payload, request)
		}
	})
}

// FuzzCredential sends every text as a credential.
func FuzzCredential(f *testing.F) {
	realm := mungetest.NewRealm()
	s := &service{}
	cc := rawDial(f, startServer(f, &munge.CredentialCheck{Node: "n1", Coder: realm.As(0, 0)}, s))
	f.Add("MUNGE:AAAA:", []byte("x"))
	f.Add("", []byte{})
	f.Fuzz(func(t *testing.T, credential string, request []byte) {
		for _, r := range credential {
			if r < ' ' || r > '~' {
				t.Skip() // gRPC does not send it
			}
		}
		if err := rawCall(t.Context(), cc, check, request, credential); err == nil || s.countCalls() != 0 {
			t.Errorf("%q was accepted", credential)
		}
	})
}
