package keys

import "strings"

// Slots is the number of hash slots in a Redis Cluster.
const Slots = 16384

// Slot returns the hash slot of key: CRC16 of its hash tag, or of the whole key
// where it has none, modulo Slots.
// See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags.
func Slot(key string) uint16 {
	return crc16(0, Tag(key)) % Slots
}

// Tag returns the part of key that decides its slot: what stands between the
// first '{' and the next '}', if that isn't empty, else all of key.
func Tag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// crc16 continues crc over s. It is CRC-16/XMODEM, as the cluster spec's
// appendix A asks: polynomial 0x1021, initial value 0, no reflection.
func crc16(crc uint16, s string) uint16 {
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return crc
}

// crcTable holds what each value of a register's high byte adds to the rest.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
