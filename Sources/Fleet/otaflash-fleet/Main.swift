import CLinux
import Glibc
import OTAFleetCommands

@main
struct Main {
    static func main() async {
        // By default, glibc creates up to 8 heaps for each processor, and each heap keeps its own freed memory. A gateway has a thread for
        // each open link, but the threads allocate little at the same time.
        mallopt(M_ARENA_MAX, 1)
        exit(await FleetTool.run(CommandLine.arguments))
    }
}
