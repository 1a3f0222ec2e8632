// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package slurmrest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// TokenProvider returns the user and the JSON web token to present with a request. It is asked
// again for every request, so that a token may be replaced while the client lives. A TokenProvider
// must be safe for concurrent use and should return before ctx is done.
type TokenProvider func(ctx context.Context) (user, token string, err error)

// maxTokenFile bounds a token file; real tokens have some hundred bytes.
const maxTokenFile = 64 << 10

// TokenFile returns a provider that reads the token from a file each time. The file holds the
// output of "scontrol token", with or without the SLURM_JWT= in front. Writing a new token to
// another file and renaming that file to the name of the first is safe at any time. user may be
// empty from Slurm 23.02 on; 22.05 requires a user.
func TokenFile(path, user string) TokenProvider {
	return func(context.Context) (string, string, error) {
		token, err := readToken(path)
		return user, token, err
	}
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	if len(raw) > maxTokenFile {
		return "", fmt.Errorf("token %s: more than %d bytes", path, maxTokenFile)
	}
	token := strings.TrimPrefix(string(bytes.TrimSpace(raw)), "SLURM_JWT=")
	if token == "" || strings.ContainsFunc(token, notTokenByte) {
		return "", fmt.Errorf("token %s: not one token", path)
	}
	return token, nil
}

// notTokenByte reports whether a token cannot contain r: a token is
// three base64 words joined by dots.
func notTokenByte(r rune) bool { return r <= ' ' || r > '~' }

// StaticToken returns a provider for a token that never changes.
func StaticToken(user, token string) TokenProvider {
	return func(context.Context) (string, string, error) { return user, token, nil }
}
