import Glibc
import OTAFleetCommands

@main
struct Main {
    static func main() async { exit(await FleetTool.run(CommandLine.arguments)) }
}
