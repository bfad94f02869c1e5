import BlueZ
import OTAFirmware
import OTALinks
import OTAUpdate

// MARK: - Update sessions

extension Failure {
    /// Creates the failure for an error of an update session.
    init(_ error: UpdateError, in invocation: Invocation) {
        self.init(
            error.code.rawValue, Self.exit(of: error, in: invocation), Self.message(error),
            hint: Self.advice(for: error, in: invocation))
    }

    /// Returns the next step after a push that ended with an error code; nil if no push ends with this code. The line in it names the
    /// bundle `FILE.otaf` and the device `ADDRESS`.
    package static func pushAdvice(for code: String) -> String? {
        guard let code = UpdateError.Code(rawValue: code) else { return nil }
        let push = Invocation(command: Push.name, file: "FILE.otaf", device: "ADDRESS")
        return advice(for: UpdateError(code, ""), in: push)
    }

    /// Returns the message for an error. For some error codes, the error's context does not describe the failure completely. The message
    /// then starts with a summary of the failure.
    private static func message(_ error: UpdateError) -> String {
        let meaning: String? =
            switch error.code {
            case .linkUnavailable: "no connection to the device is possible"
            case .noSuchDevice: "the device cannot be reached"
            case .deviceInUse: "the device is in use"
            case .linkLost: "the link was lost, and all retries failed"
            case .notPermitted: "the device refused access"
            case .interrupted: "interrupted"
            case .noProgress: "the update made no progress"
            case .timedOut: "the time limit was reached"
            case .unsupportedDevice: "the device does not support this command"
            case .protocolViolation: "the device violated the protocol"
            case .noAnswer: "the device did not answer"
            case .rolledBack: "the device rolled back to its old image"
            case .imageNotRunning: "the device does not run the new image"
            case .attributeRefused, .deviceBusy, .flashFailed, .digestMismatch, .envelopeMalformed, .criticalField,
                .untrustedByDevice, .wrongProduct, .wrongHardware, .targetUnchecked, .counterTooLow, .requiresNewer,
                .wrongImageFormat, .imageTooLarge, .envelopeTooLarge, .batteryLow, .refusedByPolicy, .downgrade,
                .inTrial, .notInTrial, .noTrial, .trialAvailable, .slotHoldsImage, .didNotReturn:
                nil
            }
        let context = error.context.isEmpty || error.code == .interrupted ? nil : error.context
        let text = [meaning, context].compactMap(\.self).joined(separator: ": ")
        return (text.isEmpty ? error.code.rawValue : text)
            + (error.stoppedApplication.map { "; \($0.rawValue), and the device waits for an image" } ?? "")
    }

    private static func exit(of error: UpdateError, in invocation: Invocation) -> ExitStatus {
        switch error.code.kind {
        case .noConnection: .unavailable
        case .unreachable:
            // Another attempt finds no other device.
            error.code == .noSuchDevice
                && (error.remedy == .removeBond || error.remedy == .chooseDevice || invocation.virtualDevice != nil)
                ? .unavailable : .linkLost
        case .postponed: .linkLost
        case .interrupted: Interrupts.exitStatus ?? .interrupted
        case .staleTable, .unsupported, .faulty: .protocolBroken
        case .wrongState, .refused: .refused
        case .imageLost: error.code == .didNotReturn ? .linkLost : .rolledBack
        }
    }

    private static func advice(for error: UpdateError, in given: Invocation) -> String {
        let invocation = given.again
        let again = invocation.line()
        // By default, a push resumes from the device's offset. So the hint repeats the command line without `--restart`.
        let resumed = invocation.without(PushFlag.restart.argument).line()
        let fresh = invocation.without(PushFlag.resume.argument).line(adding: PushFlag.restart.argument)
        let repeats =
            invocation.options.contains(PushFlag.dryRun.argument) ? "run the command again" : "resume the update"
        let status = invocation.line("status", withFile: false)
        let inspect = Invocation(command: "inspect", file: invocation.file ?? "BUNDLE").line()
        let image = Shell.quoted(invocation.file ?? "IMAGE")
        let created = invocation.virtualDeviceAgain.map { "; or create the virtual device again: \($0)" } ?? ""
        switch error.code {
        case .linkUnavailable:
            guard invocation.isBluetooth else {
                return "check the address, then run: \(again)"
            }
            return machineAdvice
        case .noSuchDevice where error.remedy == .removeBond: return bondAdvice(invocation)
        case .noSuchDevice where error.remedy == .chooseDevice: return choice
        case .linkLost where error.remedy == .removeBond: return bondAdvice(invocation)
        case .notPermitted where error.remedy == .removeBond: return bondAdvice(invocation)
        case .notPermitted where error.remedy == .checkDevice: return imitationAdvice
        case .noSuchDevice:
            guard invocation.virtualDevice == nil else {
                return "list the virtual devices: otaflash simulate list"
            }
            return invocation.isBluetooth ? whereToLook : supportAdvice(invocation, again)
        case .deviceInUse:
            guard invocation.isBluetooth else {
                return "wait until the other otaflash has ended, or stop it; then run: \(again)"
            }
            return
                "end the other program that uses the device; to end the links of all programs: sudo systemctl restart bluetooth; "
                + "then run: \(again)"
        case .deviceBusy:
            return
                "another host may be updating the device, its self-test may be running, or it limits the wear of its flash; wait, "
                + "then run: \(resumed)"
        case .attributeRefused: return staleTableAdvice(invocation) + "; then run: \(resumed)"
        case .noAnswer where error.isSilent:
            guard invocation.isBluetooth else { return supportAdvice(invocation, again) }
            return
                "the device may drop requests until it is paired; pair with it: bluetoothctl pair \(invocation.bluetoothAddress); or, "
                + "\(staleTableAdvice(invocation)); then run: \(again)"
        case .linkLost where error.remedy == .longerValues:
            return
                "use an adapter and firmware with a larger ATT MTU (Zephyr: CONFIG_BT_L2CAP_TX_MTU=247 and "
                + "CONFIG_BT_BUF_ACL_RX_SIZE=251), or firmware that reassembles packets "
                + "(CONFIG_MCUMGR_TRANSPORT_BT_REASSEMBLY=y); then run: \(resumed)"
        case .linkLost, .noAnswer: return "\(repeats): \(resumed)"
        case .noProgress:
            let closer = invocation.isBluetooth ? "move closer to the device and " : ""
            return
                "\(closer)resume the update: \(resumed); if it stops again, record the device's responses: \(resumed) --log otaflash.log"
        case .timedOut:
            return "resume with a longer --timeout, or without a limit: \(resumed)"
        case .imageNotRunning:
            return
                "check the version of the image and the key of its signature, and push again: \(fresh)"
        case .didNotReturn:
            let moved = invocation.isBluetooth ? "; if it may have a new address, find it: otaflash scan" : ""
            return "when the device is back, show the running version: \(status)\(moved)"
        case .interrupted: return "\(repeats): \(resumed)"
        case .notPermitted:
            guard invocation.options.contains(PushFlag.dryRun.argument) else { return pairingAdvice(again) }
            return "the device demands pairing, and a dry run does not pair; pair with it first: \(status)"
        case .unsupportedDevice:
            return unsupportedAdvice(error, invocation)
        case .protocolViolation:
            let record =
                "the device's firmware violates its protocol; record its messages: \(resumed) --log otaflash.log"
            return invocation.isBluetooth ? "\(staleTableAdvice(invocation)); or, \(record)" : record
        case .flashFailed:
            return "the device's flash may be worn or write-protected; try again: \(resumed)"
        case .digestMismatch:
            return
                "the device's flash does not keep the written data; start again from 0: \(fresh)"
        case .envelopeMalformed, .criticalField:
            return
                "the device's firmware supports only an older bundle format; show the bundle's fields: \(inspect)"
        case .untrustedByDevice:
            return signatureAdvice(error, invocation) + created
        case .wrongProduct, .wrongHardware:
            let advice =
                error.boardProduct.map { boardAdvice($0, in: invocation) }
                ?? "compare the bundle with the device: \(inspect); \(status)"
            return advice + created
        case .targetUnchecked:
            let accepted = invocation.line(adding: PushFlag.uncheckedTarget.argument)
            return "show the target of the bundle: \(inspect); if the bundle is for this device: \(accepted)"
        case .wrongImageFormat:
            return switch error.remedy {
            case .bundle:
                "sign the image into a bundle, and push the bundle: otaflash sign \(image) --key KEY.pem --product P\(created)"
            case .digest(let bits):
                "sign the image again, with the options of its build and --sha \(bits): "
                    + "otaflash sign IMAGE --as mcuboot --key KEY.pem --version V --header-size N --sha \(bits)"
            case .uploadOnly, .deviceLog, .longerValues, .removeBond, .checkDevice, .policy, .signature, .chooseDevice,
                nil:
                "show the image format, which the device's bootloader must support: \(inspect)\(created)"
            }
        case .counterTooLow:
            return
                "the device refuses releases with a lower security counter; sign a release with a counter as high as the device's: "
                + "otaflash sign IMAGE --counter N\(created)"
        case .requiresNewer: return "first push the required release, then run: \(again)"
        case .envelopeTooLarge:
            return
                "give the device's firmware a larger envelope buffer (ota_config.largest_envelope, docs/device-integration.md#envelope-buffer), "
                + "and install that firmware first; show the signatures of the bundle: \(inspect)\(created)"
        case .imageTooLarge: return "make the image smaller; show its contents: \(inspect)"
        case .batteryLow: return "charge the device, then run: \(again)"
        case .refusedByPolicy where error.remedy == .deviceLog:
            return
                "the device does not report the reason: read its own log; show the images in its slots: \(status)"
        case .refusedByPolicy:
            return
                "confirm the update on the device, for example with a button; or, if its firmware limits the increase of the "
                + "security counter, sign with a lower --counter; then run: \(again)"
        case .downgrade:
            if case .policy(let path) = error.remedy {
                return
                    "if this downgrade is intended, remove the line 'downgrade = refuse' in \(Shell.quoted(path))"
            }
            return "to install the lower version, omit \(PushFlag.noDowngrade.argument)"
        case .inTrial where error.isMarkedForBoot:
            var update = invocation
            update.file = "FILE"
            let complete = invocation.command == "push" ? update.line() : update.line("push")
            guard !error.isMarkedPermanently else {
                return
                    "to install the marked image, push its file again: \(complete); to install another image instead, restart the "
                    + "device, which then runs the marked image without a trial, and push the other file: \(complete)"
            }
            let discard = invocation.line("discard", withFile: false)
            return
                "to install the marked image, push its file again: \(complete); to discard it, restart the device, which then runs "
                + "it on trial, and run: \(discard)"
        case .inTrial:
            let confirm = invocation.line("confirm", withFile: false)
            return
                "confirm the running image: \(confirm); or discard the update: \(invocation.line("discard", withFile: false))"
        case .notInTrial: return "there is no image to confirm; show the running version: \(status)"
        case .noTrial:
            let permanent = invocation.without(PushFlag.noConfirm.argument).line(adding: PushFlag.permanent.argument)
            return "the device cannot roll back the new image; to install it permanently: \(permanent)"
        case .trialAvailable:
            return "omit \(PushFlag.permanent.argument): the device then rolls back if the image does not run"
        case .slotHoldsImage:
            let erase = invocation.line("discard", withFile: false, adding: Discard.eraseArgument)
            return "to erase it: \(erase); if it is the earlier image, the device can then not return to it"
        case .rolledBack:
            return
                "the new image did not start, or was not confirmed in time; show the running version: \(status)"
        }
    }

    /// Returns the hint for a device over UDP or a serial port that does not answer.
    private static func supportAdvice(_ invocation: Invocation, _ again: String) -> String {
        guard let port = invocation.serialPort else {
            return
                "check that the device is switched on, that its firmware supports SMP, and that the address is correct; then run: "
                + again
        }
        let options = ["baud=9600", "framing=raw"].map { "--device " + Shell.quoted("serial:\(port)?\($0)") }
        return
            "check that the device is switched on, and that its firmware has SMP on this port, with this baud rate (default: 115200) "
            + "and framing (console, raw or raw-cobs; default: detected); examples: \(options[0]), \(options[1]); then run: \(again)"
    }

    /// Returns the hint for a device whose attribute table in bluetoothd may be stale.
    private static func staleTableAdvice(_ invocation: Invocation) -> String {
        "if its firmware was changed, remove its old attribute table and its bond: bluetoothctl remove \(invocation.bluetoothAddress)"
    }

    /// Returns the hint for a command or an option that the device's protocol does not support.
    private static func unsupportedAdvice(_ error: UpdateError, _ invocation: Invocation) -> String {
        let uploadOnly = PushFlag.uploadOnly.argument
        if error.remedy == .uploadOnly {
            let endings = [PushFlag.permanent, .noConfirm].map(\.argument)
            let upload = endings.reduce(invocation) { $0.without($1) }.line(adding: uploadOnly)
            return "upload the image without a mark: \(upload); then restart the device: "
                + invocation.line("restart", withFile: false)
        }
        if invocation.updateProtocol != nil {
            var detected = invocation
            detected.updateProtocol = nil
            return "if the device offers another protocol, omit --protocol: \(detected.line())"
        }
        let status = invocation.line("status", withFile: false)
        switch invocation.command {
        case "identify":
            return "identify requires the GATT OTA profile, and a device that can blink; show its state: \(status)"
        case "discard": return "push a complete image; or show the device's state: \(status)"
        case "restart": return "switch the device off and on; or show its state: \(status)"
        default: break
        }
        if invocation.options.contains(uploadOnly) {
            return
                "if the device has only one slot, or offers only the GATT OTA profile, omit \(uploadOnly): \(invocation.without(uploadOnly).line())"
        }
        let check =
            "check that this is the intended device, and that its firmware supports an update protocol: "
            + UpdateProtocol.titles
        return invocation.isBluetooth ? "\(check); \(staleTableAdvice(invocation))" : check
    }

    /// Returns the hint for a bundle whose product name differs from the board's product name.
    private static func boardAdvice(_ product: String, in invocation: Invocation) -> String {
        var bundle = invocation
        bundle.file = "NEW.otaf"
        var image = invocation
        image.file = "IMAGE"
        return
            "the product name of this device is \(product); if the image is for this device, sign it again and push the new bundle: "
            + "otaflash sign IMAGE --key KEY --product \(product) -o NEW.otaf; \(bundle.line()); or push the MCUboot image "
            + "itself: \(image.line())"
    }
}

// MARK: - Bluetooth commands without a session

extension Failure {
    /// Creates the failure for a Bluetooth error of a command without a session, such as `gatt`. The code of the failure is the code of
    /// the ``LinkError`` for this error.
    init(_ error: BlueZError, in invocation: Invocation) {
        let link = LinkError(error)
        let again = invocation.line()
        let (exit, hint): (ExitStatus, String) =
            switch link.code {
            case .unavailable: (.unavailable, Self.machineAdvice)
            case .noSuchDevice where link.remedy == .chooseDevice: (.unavailable, Self.choice)
            case .noSuchDevice: (.linkLost, Self.whereToLook)
            case .inUse: (.linkLost, "wait until the other program has ended, then run: \(again)")
            case .timedOut, .lost: (.linkLost, "check that the device is switched on and near, then run: \(again)")
            case .refused:
                (
                    .protocolBroken,
                    "list the services of the device: otaflash gatt services \(invocation.bluetoothDevice ?? "ble:ADDRESS"); "
                        + Self.staleTableAdvice(invocation)
                )
            case .notPermitted:
                switch link.remedy {
                case .removeBond: (.refused, Self.bondAdvice(invocation))
                case .checkDevice: (.refused, Self.imitationAdvice)
                default: (.refused, Self.pairingAdvice(again))
                }
            }
        self.init(link.code.rawValue, exit, error.context, hint: hint)
    }

    /// The hint for a computer on which Bluetooth does not work.
    private static var machineAdvice: String { "find the missing part and the command that fixes it: otaflash doctor" }

    /// The hint for a Bluetooth device that was not found.
    private static var whereToLook: String {
        "check that the device is switched on and in range; find its address: otaflash scan"
    }

    /// The hint if several Bluetooth devices match the address.
    private static var choice: String { "use the address of one device; the signal strengths: otaflash scan" }

    /// Returns the hint for a bond that does not fit the device, or whose authentication is not known.
    private static func bondAdvice(_ invocation: Invocation) -> String {
        "if the device was erased, or another device was paired under its address, remove the bond: bluetoothctl remove "
            + "\(invocation.bluetoothAddress); then pair with its passkey: \(withPasskey(invocation.line()))"
    }

    /// The hint for a device that pairs without authentication although this is required.
    private static var imitationAdvice: String {
        "check that it is the intended device: any device in range can imitate a device without a passkey; to accept the link, omit "
            + "--passkey and --require-bond"
    }

    /// Returns the hint for a device that requires pairing.
    private static func pairingAdvice(_ again: String) -> String {
        "the device demands pairing: enter its six-digit passkey at the prompt, or run: \(withPasskey(again))"
    }

    /// Returns the hint for a bundle without a signature by the device's keys. A key that is not trusted here may be replaced or stolen, so
    /// the hint does not suggest to sign with it.
    private static func signatureAdvice(_ error: UpdateError, _ invocation: Invocation) -> String {
        var names = ""
        if case .signature(let keys) = error.remedy, let trusted = invocation.trustedKeys {
            let usable = keys.filter(trusted.contains)
            guard !usable.isEmpty else {
                let first = Invocation(command: "push", file: "RELEASE", device: invocation.device).line()
                return
                    "no key of the device is trusted here. If its key was replaced, first install the release that is signed with "
                    + "both keys: \(first) (docs/key-rotation.md)"
            }
            names = " (\(usable.map(\.description).joined(separator: ", ")))"
        }
        let sign = Invocation(command: "sign", file: invocation.file ?? "BUNDLE").line(adding: "--key KEY --force")
        return "add a signature by a key that the device trusts\(names): \(sign)"
    }

    private static func withPasskey(_ line: String) -> String {
        line.contains(" --passkey ") ? line : "\(line) --passkey NNNNNN"
    }
}
