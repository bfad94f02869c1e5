import ArgumentParser
import OTAClient
import OTASimulator

/// Lists the virtual devices.
struct SimulateList: Verb {
    static let name = "simulate list"
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the virtual devices.")

    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let store = try VirtualDevices().store
        var devices: [VirtualDevicesAnswer.Device] = []
        var unreadable: [VirtualDevicesAnswer.Unreadable] = []
        for name in try store.names() {
            do throws(VirtualDeviceError) {
                devices.append(.init(try store.summary(of: name)))
            } catch {
                // Another process has removed the device in the meantime.
                guard error.code != .noSuchDevice else { continue }
                let failure = Failure(error, in: Invocation(command: Self.name, device: "sim:\(name)"))
                console.warn("sim:\(name) cannot be read: \(failure.message); \(failure.hint)")
                unreadable.append(.init(address: "sim:\(name)", code: failure.code))
            }
        }
        let none: TerminalLine = "No virtual devices. To create one: otaflash simulate create NAME, or push to sim:"
        let lines = devices.isEmpty && unreadable.isEmpty ? [none] : VirtualDevicesAnswer.table(devices)
        return VirtualDevicesAnswer(
            devices: devices, lines: lines, unreadable: unreadable.isEmpty ? nil : unreadable)
    }
}
