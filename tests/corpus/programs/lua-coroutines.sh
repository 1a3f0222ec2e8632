#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Lua: coroutines, string patterns, weak tables, n queens, paced by a child's clock
# Needs: lua5.4
#SBATCH --job-name=lua-coroutines --ntasks=1 --output=log
set -eu
cat >queens.lua <<'LUA'
io.stdout:setvbuf("line")
print("placing queens")
local clock = io.popen("i=0; while [ $i -lt 70 ]; do sleep 0.1; echo tick; i=$((i+1)); done")
local function queens(n)
  local function place(row, cols, up, down, board)
    if row > n then coroutine.yield(table.concat(board, " ")) return end
    for c = 1, n do
      if not (cols[c] or up[row + c] or down[row - c]) then
        cols[c], up[row + c], down[row - c], board[row] = true, true, true, c
        place(row + 1, cols, up, down, board)
        cols[c], up[row + c], down[row - c], board[row] = nil, nil, nil, nil
      end
    end
  end
  return coroutine.wrap(function() place(1, {}, {}, {}, {}) end)
end
local out, found, sum, cache = io.open("boards", "w"), 0, 0, setmetatable({}, { __mode = "k" })
local next_board = queens(9)
for line in clock:lines() do
  for _ = 1, 5 do
    local board = next_board()
    if board then
      found = found + 1
      for n in board:gmatch("%d+") do sum = (sum * 31 + tonumber(n)) & 0xffffffffffff end
      cache[{}] = board:rep(100)
      out:write(found, ": ", board, "\n")
    end
  end
  if found % 70 == 0 then print("found", found, string.format("%x", sum)) end
end
out:close()
print("boards", found, string.format("%x", sum), clock:close())
LUA
lua5.4 queens.lua
sha256sum boards
