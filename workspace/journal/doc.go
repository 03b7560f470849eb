// Package journal keeps every byte that a session printed, addressed by offset,
// with times, in segment files that survive the writer's sudden end at any byte.
// FORMAT.md beside this file describes them.
//
// One process writes, through a [Journal], which it can also read:
//
//	j, err := journal.Open(dir, journal.Options{})
//	…
//	end, err := j.Append(p, time.Now())
//
// Each reader in that process keeps its own offset, and waits at the end:
//
//	for {
//		if err := j.Wait(ctx, off); err != nil {
//			return err // ErrClosed: everything was read
//		}
//		n, err := j.ReadAt(buf, off)
//		…
//		off += uint64(n)
//	}
//
// Other processes use a [Reader], while the writer lives or long after.
//
// What Append returned for outlives the process, as it went to the operating
// system by write(2); it isn't synced to the disk, so a power cut may take the
// newest bytes. Reads check every chunk's checksum.
//
// Memory stays small: one index entry for each 32 KiB of output kept.
package journal
