import ArgumentParser
import OTASimulator

struct SimulateList: Verb {
    static let name = "simulate list"
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Show the virtual devices there are.")

    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let devices = try VirtualDevices().store.list().map { VirtualDevicesAnswer.Device($0) }
        let none = "No virtual device yet: the first push to sim: makes one, or otaflash simulate create."
        let text = devices.isEmpty ? none : VirtualDevicesAnswer.table(devices)
        return VirtualDevicesAnswer(devices: devices, text: text)
    }
}
