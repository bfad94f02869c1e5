import ArgumentParser
import OTASimulator

struct SimulateList: Verb {
    static let name = "simulate list"
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Show the virtual devices there are.")

    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let store = try VirtualDevices().store
        var devices: [VirtualDevicesAnswer.Device] = []
        var unreadable: [VirtualDevicesAnswer.Unreadable] = []
        for name in try store.names() {
            do throws(VirtualDeviceError) {
                devices.append(.init(try store.summary(of: name)))
            } catch {
                // Removed meanwhile by another process: it is not there.
                guard error.code != .noSuchDevice else { continue }
                let failure = Failure(error, in: Invocation(command: Self.name, device: "sim:\(name)"))
                console.warn("sim:\(name) cannot be read: \(failure.message); \(failure.hint)")
                unreadable.append(.init(address: "sim:\(name)", code: failure.code))
            }
        }
        let none: TerminalLine = "No virtual device yet: the first push to sim: makes one, or otaflash simulate create."
        let lines = devices.isEmpty && unreadable.isEmpty ? [none] : VirtualDevicesAnswer.table(devices)
        return VirtualDevicesAnswer(
            devices: devices, lines: lines, unreadable: unreadable.isEmpty ? nil : unreadable)
    }
}
