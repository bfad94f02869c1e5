import OTAUpdate

extension Failure {
    init(_ error: UpdateError, in invocation: Invocation) {
        let (exit, hint) = Self.advice(for: error, in: invocation)
        self.init(error.code.rawValue, exit, Self.message(error), hint: hint)
    }

    /// The session says what was seen; where that does not tell what it means, this does.
    private static func message(_ error: UpdateError) -> String {
        let meaning: String? =
            switch error.code {
            case .linkUnavailable: "there is no way to the device"
            case .noSuchDevice: "the device cannot be reached"
            case .deviceInUse: "the device is in use"
            case .linkLost: "the link was lost, and all attempts are used up"
            case .notPermitted: "the device does not permit it"
            case .interrupted: "interrupted"
            case .noProgress: "the update makes no progress"
            case .timedOut: "the time limit has passed"
            case .unsupportedDevice: "the device cannot be updated like this"
            case .protocolViolation: "the device broke the protocol"
            case .noAnswer: "the device does not answer"
            case .rolledBack: "the device rolled back to its old image"
            case .deviceBusy, .flashFailed, .digestMismatch, .envelopeMalformed, .criticalField, .untrustedByDevice,
                .wrongProduct, .wrongHardware, .targetUnchecked, .counterTooLow, .requiresNewer, .wrongImageFormat,
                .imageTooLarge,
                .batteryLow, .refusedByPolicy, .downgrade, .inTrial, .notInTrial, .noTrial, .trialAvailable,
                .didNotReturn:
                nil
            }
        guard let meaning else { return error.context.isEmpty ? error.code.rawValue : error.context }
        return error.context.isEmpty || error.code == .interrupted ? meaning : "\(meaning): \(error.context)"
    }

    private static func advice(
        for error: UpdateError, in given: Invocation
    ) -> (ExitStatus, hint: String) {
        let invocation = given.again
        let again = invocation.line()
        let resumed = invocation.command == "push" ? invocation.line(adding: "--resume") : again
        let fresh = invocation.without("--resume").line()
        let status = invocation.line("status", withFile: false)
        let inspect = Invocation(command: "inspect", file: invocation.file ?? "BUNDLE").line()
        let created = invocation.virtualDeviceAgain.map { "; or make the virtual device again: \($0)" } ?? ""
        switch error.code {
        case .linkUnavailable:
            guard invocation.isBluetooth else {
                return (.unavailable, "see that the address is right, then type: \(again)")
            }
            return (.unavailable, machineAdvice)
        case .noSuchDevice:
            guard invocation.isBluetooth || invocation.virtualDevice != nil else {
                return (
                    .unavailable,
                    "see that the device is switched on, that its firmware has SMP, and that the address is right: "
                        + "docs/smp.md; then type: \(again)"
                )
            }
            guard invocation.virtualDevice != nil else { return (.unavailable, whereToLook) }
            return (.unavailable, "see which virtual devices there are: otaflash simulate list")
        case .deviceInUse: return (.unavailable, "wait for the other otaflash to end, or stop it, then type: \(again)")
        case .deviceBusy:
            return (
                .unavailable,
                "another host may be updating it, its self-test may run, or it limits the wear of its flash; later "
                    + "type: \(resumed)"
            )
        case .linkLost, .noAnswer: return (.linkLost, "go on from where it stopped: \(resumed)")
        case .noProgress:
            let closer = invocation.isBluetooth ? "move closer to the device and " : ""
            return (
                .linkLost,
                "\(closer)continue: \(resumed); if it stops again, see the device's answers: \(resumed) --verbose"
            )
        case .timedOut:
            return (.linkLost, "continue with a longer --timeout, or without: \(resumed)")
        case .didNotReturn: return (.linkLost, "see what runs when it is back: \(status)")
        case .interrupted: return (.interrupted, "go on from where it stopped: \(resumed)")
        case .notPermitted: return (.refused, pairingAdvice(again))
        case .unsupportedDevice:
            return (
                .protocolBroken,
                "see that this is the device that was meant, and what its firmware can do: docs/ota-profile.md, docs/smp.md"
            )
        case .protocolViolation:
            return (
                .protocolBroken,
                "the device's firmware does not keep to its protocol; look closer: \(resumed) --verbose"
            )
        case .flashFailed:
            return (.protocolBroken, "its flash may be worn out or write-protected; try once more: \(resumed)")
        case .digestMismatch:
            return (
                .protocolBroken,
                "its flash does not keep what is written to it; start over, without --resume: \(fresh)"
            )
        case .envelopeMalformed, .criticalField:
            return (.refused, "its firmware reads an older form of bundles; see what this one asks for: \(inspect)")
        case .untrustedByDevice:
            let sign = Invocation(command: "sign", file: invocation.file ?? "BUNDLE").line(adding: "--key KEY --force")
            return (.refused, "add a signature by a key that the device trusts: \(sign)\(created)")
        case .wrongProduct, .wrongHardware:
            let advice =
                error.boardProduct.map { boardAdvice($0, in: invocation) } ?? "compare them: \(inspect); \(status)"
            return (.refused, advice + created)
        case .targetUnchecked:
            let accepted = invocation.line(adding: "--unchecked-target")
            return (.refused, "see what the bundle is for: \(inspect); if it is for this device: \(accepted)")
        case .wrongImageFormat:
            return (.refused, "see what it is: \(inspect); a device takes what its protocol and its bootloader know")
        case .counterTooLow:
            return (
                .refused,
                "an older release cannot come back; a new one needs a counter as high: "
                    + "otaflash sign IMAGE --counter N\(created)"
            )
        case .requiresNewer: return (.refused, "push the release that it requires first, then type: \(again)")
        case .imageTooLarge: return (.refused, "make the image smaller; what is in it: \(inspect)")
        case .batteryLow: return (.refused, "charge the device, then type: \(again)")
        case .refusedByPolicy:
            return (
                .refused,
                "a person may have to consent at the device, by a button for example; or its firmware limits the step of "
                    + "the security counter: sign with a lower --counter; then type: \(again)"
            )
        case .downgrade: return (.refused, "install it all the same by leaving out --no-downgrade")
        case .inTrial:
            let confirm = invocation.line("confirm", withFile: false)
            return (
                .refused, "keep what runs: \(confirm); or give it up: \(invocation.line("discard", withFile: false))"
            )
        case .notInTrial: return (.refused, "there is nothing to confirm; see what runs: \(status)")
        case .noTrial:
            let permanent = invocation.without("--no-confirm").line(adding: "--permanent")
            return (.refused, "the new image is for good at once, without a way back; if that is meant: \(permanent)")
        case .trialAvailable:
            return (.refused, "leave out --permanent, and the device goes back by itself if the image does not run")
        case .rolledBack:
            return (.rolledBack, "the new image did not start, or was not confirmed in time; see what runs: \(status)")
        }
    }

    /// What to do about a bundle for another product than the board's.
    private static func boardAdvice(_ product: String, in invocation: Invocation) -> String {
        var bundle = invocation
        bundle.file = "NEW.otaf"
        var image = invocation
        image.file = "IMAGE"
        return
            "the product name of this board is \(product); if the image is for this board, sign it again and push that: "
            + "otaflash sign IMAGE --key KEY --product \(product) -o NEW.otaf; \(bundle.line()); or push the MCUboot image "
            + "itself: \(image.line())"
    }
}
