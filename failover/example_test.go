package failover_test

import (
	"fmt"

	"github.com/shardlimit/shardlimit/failover"
)

func ExampleClassOfReply() {
	for _, text := range []string{
		"CLUSTERDOWN Hash slot not served",
		"NOPERM User limiter has no permissions to run the 'evalsha' command",
	} {
		class := failover.ClassOfReply(text)
		fmt.Println(class, class.Unavailable())
	}
	// Output:
	// never ran true
	// configuration false
}
