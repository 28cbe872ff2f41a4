package keys

import (
	"strconv"
	"sync"
)

// ForPart returns the key of one of the parts (2 to 64, counted from 0) that
// subject is split into; prefix, policy and shape are as in [For].
//
// Part i lies i/parts of the way round the slots from the subject's own, exactly,
// so each primary that serves one range of slots holds its share of the parts, to
// one part, and different subjects begin at different places. The hash tag is
// "<subject>%p<part>.<parts>." and a salt that brings it there. Another number of
// parts means other keys, which start empty.
func ForPart(prefix, subject, policy, shape string, part, parts int) string {
	subject = encode(subject)
	crc := crc16(0, subject)
	slot := (int(crc) + part*Slots/parts) % Slots

	var b [32]byte // keeps the suffix off the heap
	suffix := append(b[:0], "%p"...)
	suffix = strconv.AppendInt(suffix, int64(part), 10)
	suffix = append(suffix, '.')
	suffix = strconv.AppendInt(suffix, int64(parts), 10)
	suffix = append(suffix, '.')
	suffix = append(suffix, saltFor(crc16(crc, string(suffix)), uint16(slot))...)

	return prefix + ":{" + subject + string(suffix) + "}:" + policy + ":" + shape
}

// saltFor returns the 3 characters that bring a text of this CRC to slot.
//
// CRC16 is linear: crc(c, salt) = crc(c, "\0\0\0") xor crc(0, salt). So one table
// of salts, by the slot that each has alone, serves every text.
func saltFor(crc, slot uint16) string {
	i := (crc16(crc, "\x00\x00\x00") ^ slot) % Slots
	return salts()[3*int(i):][:3]
}

// salts returns the table: 3 characters for each slot, every slot having some
// among the 2^18 salts of the alphabet.
var salts = sync.OnceValue(func() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	table := make([]byte, 3*Slots)
	for i := range 1 << 18 {
		salt := []byte{alphabet[i>>12], alphabet[i>>6&63], alphabet[i&63]}
		copy(table[3*int(crc16(0, string(salt))%Slots):], salt)
	}
	return string(table)
})
