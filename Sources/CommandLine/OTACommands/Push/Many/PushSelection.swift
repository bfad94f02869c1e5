import OTAClient
import OTAFirmware
import OTASigning
import OTAUpdate

/// Finds the devices of `push --all` and asks the user whether to update them.
struct PushSelection {
    let targets: PushTargets
    let console: Console
    let invocation: Invocation

    private var selection: DeviceSelection { targets.selection }

    /// Refuses a push that must ask the user but has no terminal. Call this function before the scan.
    func checkConsent() throws(Failure) {
        guard !selection.list, !selection.yes, !TerminalQuestion.canBeAsked else { return }
        throw .usage(
            "--all asks before the update, and there is no terminal",
            hint:
                "list the devices first: \(invocation.line(adding: "--list")); then run: \(invocation.line(adding: "--yes"))"
        )
    }

    /// Scans, and returns the devices that match the options. With several adapters, assigns an adapter to each device.
    ///
    /// - Throws: `no-device-matches` if no device matches; `usage` for an MCUboot image without `--product`; the errors of the scan.
    func find(for update: VerifiedUpdate) async throws -> [ScannedDevice] {
        let product = try product(of: update)
        let found = try await console.scan(
            selection.search(targets.devices.session.updateProtocol.forced), over: targets.devices.adapter)
        let selected = selection.selected(found, product: product)
        guard !selected.isEmpty else {
            let others = found.count == 1 ? "1 other device was" : "\(found.count) other devices were"
            throw Failure(
                "no-device-matches", .linkLost,
                "no device in range matches: product \(product); \(found.isEmpty ? "no device was" : others) found",
                hint: "show the products and versions of the devices in range: otaflash scan")
        }
        return selected.assigned(to: targets.devices.adapter)
    }

    /// Shows the devices and asks the user whether to update them. With `--yes`, does nothing.
    ///
    /// - Throws: `not-agreed` if the answer is not yes; `interrupted` after a signal.
    func ask(about devices: [ScannedDevice]) async throws {
        guard !selection.yes else { return }
        let table = ScannedDevice.table(devices).lines(fitting: StandardStream.error.columns)
        console.write(table.map { .line($0) })
        let number = devices.count == 1 ? "this device" : "these \(devices.count) devices"
        let answer = try await console.untilSignalled {
            await TerminalQuestion.ask("Update \(number)? [y/N] ") ?? ""
        }
        guard ["y", "yes"].contains(answer.lowercased()) else {
            throw Failure(
                "not-agreed", .refused, "the update was not started, because the answer was not yes",
                hint: "nothing was changed; to update only some of the devices, add --name, --rssi or --limit")
        }
    }

    private func product(of update: VerifiedUpdate) throws(Failure) -> String {
        if let product = selection.product { return product }
        guard case .bundle(let bundle) = update else {
            throw .usage(
                "an MCUboot image does not contain a product, so --all needs the name of the board",
                hint:
                    "show the names of the boards: otaflash scan; then run: \(invocation.line(adding: "--product BOARD"))"
            )
        }
        return bundle.manifest.product.text
    }
}
