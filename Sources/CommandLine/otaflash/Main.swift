import Glibc
import OTACommands

@main
struct Main {
    static func main() async { exit(await OTAFlash.run(CommandLine.arguments)) }
}
