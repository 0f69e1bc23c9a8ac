@0xd1f2a7be8d5c9b43;
# The device itself: what it is, how it fares, and the marks that frame a log.

struct Map @0xf8b13ce2183eb696 (Key, Value) {
  entries @0 :List(Entry);
  struct Entry {
    key @0 :Key;
    value @1 :Value;
  }
}

struct InitData @0xe71008caeb3fb65c {
  kernelArgs @0 :List(Text);
  gctxDEPRECATED @1 :Text;
  dongleId @2 :Text;
  deviceType @3 :DeviceType;
  version @4 :Text;
  androidBuildInfoDEPRECATED @5 :AnyPointer;
  androidSensorsDEPRECATED @6 :AnyPointer;
  chffrAndroidExtraDEPRECATED @7 :AnyPointer;
  pandaInfoDEPRECATED @8 :AnyPointer;
  dirty @9 :Bool;
  gitCommit @10 :Text;
  gitBranch @11 :Text;
  passiveDEPRECATED @12 :Bool;
  gitRemote @13 :Text;
  iosBuildInfoDEPRECATED @14 :AnyPointer;
  kernelVersion @15 :Text;
  androidPropertiesDEPRECATED @16 :Map(Text, Text);
  params @17 :Map(Text, Data);
  osVersion @18 :Text;
  commands @19 :Map(Text, Data);
  wallTimeNanos @20 :UInt64;
  gitCommitDate @21 :Text;
  bootlogId @22 :Text;
  gitSrcCommit @23 :Text;
  gitSrcCommitDate @24 :Text;

  enum DeviceType {
    unknown @0;
    neo @1;
    chffrAndroid @2;
    chffrIos @3;
    tici @4;
    pc @5;
    tizi @6;
    mici @7;
  }
}

struct Sentinel @0xef0382d244f56e38 {
  type @0 :SentinelType;
  signal @1 :Int32;

  enum SentinelType {
    endOfSegment @0;
    endOfRoute @1;
    startOfSegment @2;
    startOfRoute @3;
  }
}

struct DeviceState @0xa4d8b5af2aa492eb {
  cpu0DEPRECATED @0 :UInt16;
  cpu1DEPRECATED @1 :UInt16;
  cpu2DEPRECATED @2 :UInt16;
  cpu3DEPRECATED @3 :UInt16;
  memDEPRECATED @4 :UInt16;
  gpuDEPRECATED @5 :UInt16;
  batDEPRECATED @6 :UInt32;
  freeSpacePercent @7 :Float32;
  batteryPercentDEPRECATED @8 :Int16;
  batteryStatusDEPRECATED @9 :Text;
  fanSpeedPercentDesired @10 :UInt16;
  started @11 :Bool;
  usbOnlineDEPRECATED @12 :Bool;
  startedMonoTime @13 :UInt64;
  thermalStatus @14 :ThermalStatus;
  batteryCurrentDEPRECATED @15 :Int32;
  batteryVoltageDEPRECATED @16 :Int32;
  chargingErrorDEPRECATED @17 :Bool;
  chargingDisabledDEPRECATED @18 :Bool;
  memoryUsagePercent @19 :Int8;
  cpuUsagePercentDEPRECATED @20 :Int8;
  pa0DEPRECATED @21 :UInt16;
  networkType @22 :NetworkType;
  offroadPowerUsageUwh @23 :UInt32;
  networkStrength @24 :NetworkStrength;
  carBatteryCapacityUwh @25 :UInt32;
  cpuTempC @26 :List(Float32);
  gpuTempC @27 :List(Float32);
  memoryTempC @28 :Float32;
  batteryTempCDEPRECATED @29 :Float32;
  ambientTempCDEPRECATED @30 :Float32;
  networkInfo @31 :NetworkInfo;
  lastAthenaPingTime @32 :UInt64;
  gpuUsagePercent @33 :Int8;
  cpuUsagePercent @34 :List(Int8);
  nvmeTempCDEPRECATED @35 :List(Float32);
  modemTempC @36 :List(Float32);
  screenBrightnessPercent @37 :Int8;
  thermalZones @38 :List(ThermalZone);
  pmicTempC @39 :List(Float32);
  powerDrawW @40 :Float32;
  networkMetered @41 :Bool;
  somPowerDrawW @42 :Float32;
  networkStats @43 :NetworkStats;
  maxTempC @44 :Float32;
  deviceType @45 :InitData.DeviceType;
  intakeTempC @46 :Float32;
  exhaustTempC @47 :Float32;
  gnssTempC @48 :Float32;
  dspTempC @49 :Float32;
  bottomSocTempC @50 :Float32;
  chestnutPresent @51 :Bool;
  usbState @52 :AnyPointer;

  enum ThermalStatus {
    ok @0;
    warmDEPRECATED @1;
    overheated @2;
    critical @3;
  }

  enum NetworkType {
    none @0;
    wifi @1;
    cell2G @2;
    cell3G @3;
    cell4G @4;
    cell5G @5;
    ethernet @6;
  }

  enum NetworkStrength {
    unknown @0;
    poor @1;
    moderate @2;
    good @3;
    great @4;
  }

  struct ThermalZone {
    name @0 :Text;
    temp @1 :Float32;
  }

  struct NetworkInfo {
    technology @0 :Text;
    operator @1 :Text;
    band @2 :Text;
    channel @3 :UInt16;
    extra @4 :Text;
    state @5 :Text;
  }

  struct NetworkStats {
    wwanTx @0 :Int64;
    wwanRx @1 :Int64;
  }
}

struct ManagerState @0xcf7154b31a69635b {
  processes @0 :List(ProcessState);

  struct ProcessState {
    name @0 :Text;
    pid @1 :Int32;
    running @2 :Bool;
    exitCode @3 :Int32;
    shouldBeRunning @4 :Bool;
  }
}

struct Clocks @0xc95fb49a7bdc4618 {
  bootTimeNanosDEPRECATED @0 :UInt64;
  monotonicNanosDEPRECATED @1 :UInt64;
  monotonicRawNanosDEPRECATED @2 :UInt64;
  wallTimeNanos @3 :UInt64;
  modemUptimeMillisDEPRECATED @4 :UInt64;
}
