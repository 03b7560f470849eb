// Package journal keeps every byte that a session printed, addressed by offset, with times, in segment files that
// survive the writer's sudden end at any byte. FORMAT.md beside this file describes them.
package journal
