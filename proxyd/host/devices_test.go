// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config"
)

func TestDevices(t *testing.T) {
	const two = `{"driver": "550.54", "nccl": "2.28.3", "devices": [{"name": "H100", "memory": 85899345920, "faults": []}, {"name": "H100", "memory": 85899345920, "faults": []}]}`
	for _, tc := range []struct {
		name      string
		devices   config.Devices
		says      string // output of "proxyd gpus"; after a !, on standard error, and it fails
		level     Level
		found, do string
	}{
		{"none", config.Devices{Kind: "none"}, "", OK, "none: jobs have their GPUs without device servers", ""},
		{"soft", config.Devices{Kind: "soft", Memory: 4 << 30}, "", OK, "software GPUs of 4.0 GiB, reached by its address in Slurm", ""},
		{"interpreted", config.Devices{Kind: "soft", Memory: 4 << 30, Kernels: "compiled"}, "", OK, "in Slurm; kernels are interpreted, many times slower: no AVX-512", ""},
		{"own address", config.Devices{Kind: "soft", Memory: 4 << 30, Address: "127.0.0.1"}, "", OK, "reached at 127.0.0.1", ""},
		{"another's address", config.Devices{Kind: "cuda", Address: "192.0.2.7"}, two, Fail, "192.0.2.7 is no address of this node", "devices.address"},
		{"two", config.Devices{Kind: "cuda"}, two, OK, "2 H100 of 80.0 GiB, driver 550.54, NCCL 2.28.3, reached by its address in Slurm", ""},
		{"no NCCL", config.Devices{Kind: "cuda"}, strings.Replace(two, "2.28.3", "", 1), Warn, "driver 550.54, no NCCL, reached", "install libnccl2"},
		{"a fault", config.Devices{Kind: "cuda"}, strings.Replace(two, `[]`, `["row remapping failed"]`, 1), Warn, "GPU 0: row remapping failed", "gres.conf"},
		{"no GPU", config.Devices{Kind: "cuda"}, `{"driver": "550.54", "devices": []}`, Fail, "driver 550.54 has no GPU", "dmesg"},
		{"no proxyd-cuda", config.Devices{Kind: "cuda"}, "!proxyd: this proxyd was built without cgo; real devices need proxyd-cuda: there is none at /x", Fail, "there is none at /x", "make install-cuda"},
		{"no driver", config.Devices{Kind: "cuda"}, "!proxyd: gpus: no NVIDIA driver", Fail, "no NVIDIA driver", "nvidia-smi"},
		{"nonsense", config.Devices{Kind: "cuda"}, "hello", Fail, "invalid character", "one release"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "proxyd")
			script := "#!/bin/sh\n[ \"$*\" = gpus ] && cat <<'END'\n" + tc.says + "\nEND\n"
			if said, fails := strings.CutPrefix(tc.says, "!"); fails {
				script = "#!/bin/sh\necho '" + said + "' >&2\nexit 1\n"
			}
			if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			f := checkDevices(t.Context(), &node{cfg: &config.Config{Devices: tc.devices}, known: LearntFacts{Program: program, Interpreted: errors.New("no AVX-512")}})
			if f.Level != tc.level || !strings.Contains(f.Found, tc.found) || !strings.Contains(f.Do, tc.do) || (f.Do == "") != (f.Level == OK) {
				t.Errorf("devices finding = %+v", f)
			}
		})
	}
}
