import BlueZ
import FoundationEssentials
import OTAArchive
import OTAClient
import OTACommands
import OTAFirmware
import OTAFleet
import OTAFleetCommands
import OTASigning
import OTASimulator
import OTAStore
import OTAUpdate
import Testing

/// Each error has a code, a message, a hint and an exit status.
@Suite("Errors: codes, hints and exit statuses") struct FailureTests {
    static let situations = [
        Invocation(command: "push", file: "fw.otaf", device: "sim:"),
        Invocation(command: "status", device: "sim:kitchen"),
        Invocation(command: "sign", file: "my image.bin"), Invocation(command: "keygen"),
    ]

    private func check(_ error: any Error, code: String, in invocation: Invocation) {
        let failure = Failure(error, in: invocation)
        #expect(failure.code == code)
        #expect(!failure.message.isEmpty && !failure.hint.isEmpty, "\(code)")
        #expect(!failure.message.hasSuffix(".") && !failure.hint.hasSuffix("."), "\(code)")
        #expect(failure.exit != .done && failure.exit != .terminated, "\(code)")
    }

    @Test(
        "every error has its code, a message, a hint and an exit status", arguments: situations, ["what was seen", ""])
    func allOfThem(invocation: Invocation, context: String) {
        for code in UpdateError.Code.allCases { check(UpdateError(code, context), code: code.rawValue, in: invocation) }
        for code in KeyError.Code.allCases { check(KeyError(code, context), code: code.rawValue, in: invocation) }
        for code in VerificationError.Code.allCases {
            check(VerificationError(code, context), code: code.rawValue, in: invocation)
        }
        for code in SigningError.Code.allCases {
            check(SigningError.refused(code, context: context), code: code.rawValue, in: invocation)
        }
        for code in AttestationError.Code.allCases {
            check(AttestationError(code, context), code: code.rawValue, in: invocation)
        }
        for code in ZipError.Code.allCases { check(ZipError(code, context), code: code.rawValue, in: invocation) }
        for code in PackageError.Code.allCases {
            check(PackageError(code, context), code: code.rawValue, in: invocation)
        }
        for code in VirtualDeviceError.Code.allCases {
            check(VirtualDeviceError(code, context), code: code.rawValue, in: invocation)
        }
        for code in FleetError.Code.allCases { check(FleetError(code, context), code: code.rawValue, in: invocation) }
        for code in StoreError.Code.allCases { check(StoreError(code, context), code: code.rawValue, in: invocation) }
    }

    @Test("the hint for an image marked for boot does not recommend confirm, which the device would refuse")
    func anImageMarkedForBoot() {
        let error = UpdateError(.inTrial, "context", isMarkedForBoot: true)
        let complete = "otaflash push FILE --device udp:192.0.2.1"
        let discard = "otaflash discard --device udp:192.0.2.1"
        for (command, trust) in [("push", " --trust k.pub.pem"), ("discard", "")] {
            let failure = Failure(
                error,
                in: Invocation(
                    command: command, file: trust.isEmpty ? nil : "fw.bin", device: "udp:192.0.2.1",
                    trust: trust.isEmpty ? [] : ["k.pub.pem"]))
            #expect(
                failure.hint
                    == "to install the marked image, push its file again: \(complete)\(trust); to discard it, restart the device, which "
                    + "then runs it on trial, and run: \(discard)")
        }
    }

    @Test(
        "the hint for an image marked for boot without a trial does not recommend discard, which would erase the old image"
    )
    func anImageMarkedPermanently() {
        let error = UpdateError(.inTrial, "context", isMarkedForBoot: true, isMarkedPermanently: true)
        let push = "otaflash push FILE --device udp:192.0.2.1"
        let failure = Failure(error, in: Invocation(command: "discard", device: "udp:192.0.2.1"))
        #expect(
            failure.hint
                == "to install the marked image, push its file again: \(push); to install another image instead, restart the device, "
                + "which then runs the marked image without a trial, and push the other file: \(push)")
    }

    @Test("the hint for a wrong name of a virtual device does not recommend parameters if the command accepts none")
    func aNameWithParameters() {
        let error = VirtualDeviceError(.badAddress, "context")
        for command in ["create", "remove", "serve"] {
            let invocation = Invocation(command: "simulate \(command)", device: "sim:kitchen?pace=virtual")
            let hint = Failure(error, in: invocation).hint
            #expect(hint == "give only the name, without parameters, such as kitchen")
        }
        let pushed = Failure(error, in: Invocation(command: "push", device: "sim:kitchen?pace"))
        #expect(pushed.hint.contains("'sim:NAME?drop-at=0.4&pace=virtual'"))
    }

    @Test("the hint for a bundle of another board has the commands to sign the image for the board and to push it")
    func anotherBoard() {
        let invocation = Invocation(command: "push", file: "fw.otaf", device: "udp:192.0.2.1", trust: ["k.pub.pem"])
        let failure = Failure(UpdateError(.wrongProduct, "context", boardProduct: "nrf52840dk"), in: invocation)
        let push = "--device udp:192.0.2.1 --trust k.pub.pem"
        #expect(
            failure.hint
                == "the product name of this device is nrf52840dk; if the image is for this device, sign it again and push the new bundle: "
                + "otaflash sign IMAGE --key KEY --product nrf52840dk -o NEW.otaf; otaflash push NEW.otaf \(push); "
                + "or push the MCUboot image itself: otaflash push IMAGE \(push)")
        let unknown = Failure(UpdateError(.wrongProduct, "context"), in: invocation)
        #expect(
            unknown.hint
                == "compare the bundle with the device: otaflash inspect fw.otaf; otaflash status --device udp:192.0.2.1"
        )
    }

    /// A digest can be wrong in a bundle and on a device, and a virtual device that does not exist will not come into range. So these codes
    /// have two statuses.
    @Test("each error code has one exit status, except digest-mismatch, image-too-large and no-such-device")
    func aCodeHasOneStatus() {
        var statuses: [String: Set<Int32>] = [:]
        func add(_ error: any Error) {
            let failure = Failure(error, in: Invocation(command: "push"))
            statuses[failure.code, default: []].insert(failure.exit.rawValue)
        }
        for code in UpdateError.Code.allCases { add(UpdateError(code, "")) }
        for code in KeyError.Code.allCases { add(KeyError(code, "")) }
        for code in VerificationError.Code.allCases { add(VerificationError(code, "")) }
        for code in SigningError.Code.allCases { add(SigningError.refused(code, context: "")) }
        for code in VirtualDeviceError.Code.allCases { add(VirtualDeviceError(code, "")) }
        for code in FleetError.Code.allCases { add(FleetError(code, "")) }
        for code in StoreError.Code.allCases { add(StoreError(code, "")) }
        let several = statuses.filter { $0.value.count > 1 }.keys.sorted()
        #expect(several == ["digest-mismatch", "image-too-large", "no-such-device"])
    }

    /// The rows of docs/errors.md that begin with a code, as cells.
    ///
    /// The rows of the BlueZ library follow the rows of the tool.
    private func rows(ofLibrary isLibrary: Bool) throws -> [[String]] {
        let page = try String(contentsOfFile: Sandbox.repository("docs/errors.md"), encoding: .utf8)
        let lines = page.split(separator: "\n")
        let border = try #require(lines.firstIndex(of: "## The library BlueZ"))
        return (isLibrary ? lines[border...] : lines[..<border]).filter { $0.hasPrefix("| `") }
            .map { $0.split(separator: "|").map { $0.split(separator: " ").joined(separator: " ") } }
    }

    @Test("docs/errors.md lists every BlueZ error code with the tool's code for it")
    func theLibrarysCodesAreDocumented() throws {
        let rows = try rows(ofLibrary: true)
        #expect(rows.map { $0[0] } == BlueZError.Code.allCases.map { "`\($0.rawValue)`" })
        for (row, code) in zip(rows, BlueZError.Code.allCases) {
            let failure = Failure(BlueZError(code, ""), in: Invocation(command: "scan"))
            #expect(row.last == "`\(failure.code)`", "\(code.rawValue)")
        }
    }

    /// The tables of docs/errors.md have rows `| code | exit | …`. A malformed bundle has 65.
    @Test("docs/errors.md lists every error code with its exit status")
    func theStatusesAreTheDocumentedOnes() throws {
        var documented: [String: Set<Int32>] = [:]
        for cells in try rows(ofLibrary: false) {
            // A table of two columns follows the words "All exit with 65".
            let codes = cells.count > 2 ? cells[1].split { !$0.isNumber }.compactMap { Int32($0) } : []
            for code in cells[0].filter({ $0 != "`" && $0 != " " }).split(separator: ",") {
                documented[String(code)] = codes.isEmpty ? [65] : Set(codes)
            }
        }
        #expect(documented.count > 100)
        func check(_ error: any Error) {
            let failure = Failure(error, in: Invocation(command: "push"))
            let statuses = documented[failure.code]
            #expect(statuses?.contains(failure.exit.rawValue) == true, "\(failure.code): \(failure.exit)")
        }
        for code in UpdateError.Code.allCases { check(UpdateError(code, "")) }
        for code in BlueZError.Code.allCases { check(BlueZError(code, "")) }
        for code in KeyError.Code.allCases { check(KeyError(code, "")) }
        for code in VerificationError.Code.allCases { check(VerificationError(code, "")) }
        for code in VirtualDeviceError.Code.allCases { check(VirtualDeviceError(code, "")) }
        for code in SigningError.Code.allCases { check(SigningError.refused(code, context: "")) }
        for code in ZipError.Code.allCases { check(ZipError(code, "")) }
        for code in PackageError.Code.allCases { check(PackageError(code, "")) }
        for code in FleetError.Code.allCases { check(FleetError(code, "")) }
        for code in StoreError.Code.allCases { check(StoreError(code, "")) }
        for code in BundleError.Code.allCases { #expect(documented[code.rawValue] == [65], "\(code.rawValue)") }
        for code in ImageError.Code.allCases { #expect(documented[code.rawValue] != nil, "\(code.rawValue)") }
        for code in HexError.Code.allCases { #expect(documented[code.rawValue] == [65], "\(code.rawValue)") }
    }

    @Test("the JSON Schemas list the exit statuses and the codes of docs/errors.md, and the tool has each code")
    func codesOfTheSchemas() throws {
        var documented: Set<String> = []
        for cells in try rows(ofLibrary: false) {
            documented.formUnion(cells[0].filter { $0 != "`" && $0 != " " }.split(separator: ",").map(String.init))
        }
        for name in ["otaflash-1", "progress-1"] {
            let text = try String(
                contentsOfFile: Sandbox.repository("docs/schema/\(name).schema.json"), encoding: .utf8)
            let definitions = try #require(try JSONValue(parsing: text)[dynamicMember: "$defs"])
            guard case .object(let members)? = definitions.code, case .array(let listed)? = members["enum"] else {
                Issue.record("\(name) has no list of codes")
                continue
            }
            let statuses = definitions.exit?[dynamicMember: "enum"]?.array?.compactMap { $0.number.map { Int32($0) } }
            let all = ExitStatus.allCases.filter { $0 != .done || name == "otaflash-1" }
            #expect(statuses == all.map(\.rawValue).sorted(), "\(name)")
            let codes = Set(listed.compactMap(\.string))
            let differences = codes.symmetricDifference(documented).sorted()
            #expect(differences.isEmpty, "\(name): type scripts/schema-codes")
            #expect(codes.count == listed.count)
        }
        var known: Set<String> = []
        func add<Code: CaseIterable & RawRepresentable<String>>(_: Code.Type) {
            known.formUnion(Code.allCases.map(\.rawValue))
        }
        add(UpdateError.Code.self)
        add(KeyError.Code.self)
        add(VerificationError.Code.self)
        add(VirtualDeviceError.Code.self)
        add(SigningError.Code.self)
        add(ZipError.Code.self)
        add(PackageError.Code.self)
        add(AttestationError.Code.self)
        add(BundleError.Code.self)
        add(ImageError.Code.self)
        add(HexError.Code.self)
        add(FleetError.Code.self)
        add(StoreError.Code.self)
        known.formUnion(
            BlueZError.Code.allCases.map { Failure(BlueZError($0, ""), in: Invocation(command: "scan")).code })
        // The other codes are literals of the command line.
        let literals = try Self.sources().matches(of: #/"([a-z]+(?:-[a-z]+)*)"/#).map { String($0.1) }
        let unknown = documented.subtracting(known).subtracting(literals).sorted()
        #expect(unknown.isEmpty, "documented, but not in the code")
    }

    /// The text of all files in Sources/CommandLine/OTACommands and Sources/Fleet/OTAFleetCommands.
    private static func sources() throws -> String {
        try ["Sources/CommandLine/OTACommands", "Sources/Fleet/OTAFleetCommands"].map(Sandbox.repository).map {
            folder in
            let names = try FileManager.default.subpathsOfDirectory(atPath: folder).filter { $0.hasSuffix(".swift") }
            return try names.map { try String(contentsOfFile: "\(folder)/\($0)", encoding: .utf8) }.joined()
        }.joined()
    }

    @Test("the hints of a dry run neither resume an update nor ask for a passkey")
    func hintsOfADryRun() {
        var invocation = Invocation(command: "push", file: "fw", device: "ble:AA:BB:CC:DD:EE:FF")
        invocation.options = ["--dry-run"]
        let again = "otaflash push fw --device ble:AA:BB:CC:DD:EE:FF --dry-run"
        for code in [UpdateError.Code.linkLost, .noAnswer, .interrupted] {
            #expect(Failure(UpdateError(code, ""), in: invocation).hint == "run the command again: \(again)")
        }
        #expect(
            Failure(UpdateError(.notPermitted, ""), in: invocation).hint
                == "the device demands pairing, and a dry run does not pair; pair with it first: "
                + "otaflash status --device ble:AA:BB:CC:DD:EE:FF")
    }

    /// A retry cannot succeed before the cause is removed, so these hints do not begin with a retry.
    @Test(
        "the hint for a device that refuses requests or does not answer has the commands for bluetoothd",
        arguments: [("ble:AA:BB:CC:DD:EE:FF", "AA:BB:CC:DD:EE:FF"), ("ble:name=Lamp", "ADDRESS")])
    func hintsOfAStaleTable(device: String, address: String) {
        let invocation = Invocation(command: "push", file: "fw", device: device)
        let remove =
            "if its firmware was changed, remove its old attribute table and its bond: bluetoothctl remove \(address)"
        let refused = Failure(UpdateError(.attributeRefused, "the device refused a request: no"), in: invocation)
        #expect(refused.message == "the device refused a request: no" && refused.exit == .protocolBroken)
        #expect(refused.hint == "\(remove); then run: otaflash push fw --device \(device)")
        let silent = Failure(UpdateError(.noAnswer, "", isSilent: true), in: invocation)
        #expect(
            silent.hint
                == "the device may drop requests until it is paired; pair with it: bluetoothctl pair \(address); or, \(remove); "
                + "then run: otaflash push fw --device \(device)")
        let malformed = Failure(UpdateError(.protocolViolation, "Info"), in: invocation)
        #expect(
            malformed.hint
                == "\(remove); or, the device's firmware violates its protocol; record its messages: otaflash push fw --device "
                + "\(device) --log otaflash.log")
        #expect(Failure(UpdateError(.unsupportedDevice, ""), in: invocation).hint.hasSuffix("; \(remove)"))
        let used = Failure(UpdateError(.deviceInUse, "subscribe"), in: invocation)
        #expect(
            used.hint
                == "end the other program that uses the device; to end the links of all programs: "
                + "sudo systemctl restart bluetooth; then run: otaflash push fw --device \(device)")
    }

    @Test("only the hint for a device that has answered resumes the update")
    func hintsOfASilentDevice() {
        let invocation = Invocation(command: "push", file: "fw", device: "udp:192.0.2.1")
        let again = "otaflash push fw --device udp:192.0.2.1"
        #expect(Failure(UpdateError(.noAnswer, ""), in: invocation).hint == "resume the update: \(again)")
        #expect(
            Failure(UpdateError(.noAnswer, "", isSilent: true), in: invocation).hint
                == "check that the device is switched on, that its firmware supports SMP, and that the address is correct; then run: "
                + again)
    }

    /// The hint keeps all other items of the address.
    @Test(
        "the hint for a lost link removes the injected link loss from the device's address",
        arguments: [
            ("sim:?gone-at=0.5", "sim:"), ("sim:a?gone-at=0.5&loss=0.1", "'sim:a?loss=0.1'"), ("sim:a", "sim:a"),
            ("sim:a?mtu=23&gone-at=0.5&seed=2", "'sim:a?mtu=23&seed=2'"),
            ("ble:name=a?gone-at=1", "'ble:name=a?gone-at=1'"),
        ])
    func aLostDeviceIsInReachAgain(device: String, typed: String) {
        let failure = Failure(UpdateError(.linkLost, ""), in: Invocation(command: "push", file: "fw", device: device))
        #expect(failure.hint.hasSuffix("otaflash push fw --device \(typed)"))
        // A bug report needs the complete address.
        struct Unheard: Error {}
        let internalFault = Failure(Unheard(), in: Invocation(command: "push", device: device))
        #expect(internalFault.hint.contains(device))
    }

    /// The message must not blame the user for a bug in otaflash.
    @Test("an unknown error is reported as internal, with the command to repeat")
    func whatIsNotKnownIsAFaultOfOurs() {
        struct Unheard: Error {}
        let failure = Failure(Unheard(), in: Invocation(command: "push", file: "a b", device: "sim:?seed=2"))
        #expect(failure.exit == .fault && failure.code == "internal")
        #expect(failure.hint.contains("otaflash push 'a b' --device 'sim:?seed=2' --log otaflash.log"))
    }
}
